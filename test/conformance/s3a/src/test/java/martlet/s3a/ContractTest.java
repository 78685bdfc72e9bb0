package martlet.s3a;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractContractBulkDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractContentSummaryTest;
import org.apache.hadoop.fs.contract.AbstractContractCopyFromLocalTest;
import org.apache.hadoop.fs.contract.AbstractContractCreateTest;
import org.apache.hadoop.fs.contract.AbstractContractDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractEtagTest;
import org.apache.hadoop.fs.contract.AbstractContractGetFileStatusTest;
import org.apache.hadoop.fs.contract.AbstractContractMkdirTest;
import org.apache.hadoop.fs.contract.AbstractContractMultipartUploaderTest;
import org.apache.hadoop.fs.contract.AbstractContractOpenTest;
import org.apache.hadoop.fs.contract.AbstractContractRenameTest;
import org.apache.hadoop.fs.contract.AbstractContractRootDirectoryTest;
import org.apache.hadoop.fs.contract.AbstractContractSeekTest;
import org.apache.hadoop.fs.contract.AbstractContractStreamIOStatisticsTest;
import org.apache.hadoop.fs.contract.AbstractContractUnbufferTest;
import org.apache.hadoop.fs.contract.AbstractContractVectoredReadTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.experimental.runners.Enclosed;
import org.junit.runner.RunWith;

/** Hadoop's tests of what a file system keeps, for S3A on the bucket that contract.xml names. */
@RunWith(Enclosed.class)
public class ContractTest {
    public static class BulkDelete extends AbstractContractBulkDeleteTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class ContentSummary extends AbstractContractContentSummaryTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class CopyFromLocal extends AbstractContractCopyFromLocalTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class Create extends AbstractContractCreateTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class Delete extends AbstractContractDeleteTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class Etag extends AbstractContractEtagTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class GetFileStatus extends AbstractContractGetFileStatusTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class Mkdir extends AbstractContractMkdirTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class Open extends AbstractContractOpenTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }

        /** S3A calls all files encrypted. */
        @Override
        protected boolean areZeroByteFilesEncrypted() {
            return true;
        }
    }

    public static class Rename extends AbstractContractRenameTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class RootDirectory extends AbstractContractRootDirectoryTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class Seek extends AbstractContractSeekTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class StreamIOStatistics extends AbstractContractStreamIOStatisticsTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class Unbuffer extends AbstractContractUnbufferTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }

    public static class MultipartUploader extends AbstractContractMultipartUploaderTest {
        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }

        @Override
        protected int partSizeInBytes() {
            return 5 << 20;
        }

        @Override
        protected boolean supportsConcurrentUploadsToSamePath() {
            return true;
        }

        /** CompleteMultipartUpload may be repeated. */
        @Override
        protected boolean finalizeConsumesUploadIdImmediately() {
            return false;
        }
    }

    public static class VectoredRead extends AbstractContractVectoredReadTest {
        public VectoredRead(String bufferType) {
            super(bufferType);
        }

        @Override
        protected AbstractFSContract createContract(Configuration conf) {
            return new S3aContract(conf);
        }
    }
}
